// Package kafka writes verdicts, dead letters, activity and weir's own records to topics.
//
// A verdict must be written once, by the owner of its partition at that moment. This also holds if an
// earlier owner was frozen and does not know that it was replaced. A Producer ensures it. Open takes a
// partition over: it asks the transaction coordinator for a producer id and an epoch under a
// transactional id that belongs to the group, the topic and the partition. The id stays the same and
// the epoch grows with every Open. Then it appends a mark with them: a record without key and value.
// In a topic of dead letters the mark has a small value and the header weir-mark. From that record on
// the broker refuses every record with an older epoch. So all records of an earlier owner precede the
// mark, and none can follow it. There are no transactions: a batch is visible to every consumer as soon
// as it is written, and one Append is one round trip.
//
// Brokers forget. An owner that was silent for longer than ConfirmAfter confirms its
// epoch with the coordinator before it writes, for by then a partition may have forgotten
// the last epoch. If the coordinator has forgotten the transactional id, Open finds the
// producers of the last two hours, and shuts out their producer ids.
//
// Within one owner a batch that is sent again, because its answer was lost, carries the
// same sequence number, and the broker stores it once.
//
// The first record of each batch names its owner in the header weir-owner. Consumers of
// verdicts skip records without a value, those of dead letters records with the header
// weir-mark.
package kafka
