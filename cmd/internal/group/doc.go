// Package group is the log backend on Kafka: a member of a consumer group that shares the partitions
// of events and activity. It makes three promises. At any time one member publishes for each
// partition, even if a process was frozen and comes back. A partition continues where its last owner
// stopped, with or without that owner's state. The verdicts of the whole group can be read from any
// member.
//
// Members send each other requests over HTTP, as their users do: to answer a check request, or to find
// the member that folds a flow.
package group
