// Package rules describes rules as data: names, reason codes, thresholds and settings. It promises that nothing about a
// rule depends on how it is measured: a Row is plain data, and a Setting knows no flow and no agent.
package rules
