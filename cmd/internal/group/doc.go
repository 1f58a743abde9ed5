// Package group is the log backend on Kafka: one process of a group whose members share the
// partitions of a topic of events, and of a second one of the activity of agents. It
// promises that of each partition one member publishes at a time, also when a process was
// frozen and comes back; that a partition goes on where its last owner left off, with or
// without that owner's state; and that the verdicts of the whole group may be read from any
// member.
//
// What a member asks of another one, answering an ask or naming who folds a flow, it asks
// over HTTP, as the other one's users do.
package group
