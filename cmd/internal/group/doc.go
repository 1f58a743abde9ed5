// Package group is the log backend on Kafka: a member of a consumer group that shares the partitions of events and
// activity. It promises that of each partition one member publishes at a time, also when a process was frozen and comes
// back; that a partition goes on where its last owner left off, with or without that owner's state; and that the
// verdicts of the whole group may be read from any member.
//
// What a member asks of another one, answering an ask or naming who folds a flow, it asks
// over HTTP, as the other one's users do.
package group
