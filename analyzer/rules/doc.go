// Package rules holds what is said of a rule and what may be set of it, whatever it is about:
// rows about flows and rows about agents have the same shape, so that limits files, lists and
// people know one kind. It promises that nothing about a rule depends on how it is measured:
// a Row is plain data, and a Setting knows no flow and no agent.
package rules
