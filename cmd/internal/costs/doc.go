// Package costs adds up what flows have spent, in calls, tokens and money, and how much of it after
// a warning and after a stop: by service, agent, tool, tenant and rule. It promises that each figure
// says where its price is from: the log, a price file, or that nobody knows it.
package costs
