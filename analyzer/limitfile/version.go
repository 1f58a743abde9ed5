package limitfile

import (
	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/events"
)

// Version returns the hash of what the limits say, as xxh64:<16 hex digits>. Limits
// that judge alike have the same version: comments, order, the name of the profile
// and whether it was spelled out make no difference. A rule that is off altogether
// does not count, so that a new rule leaves the versions of old limits as they are.
// The limits must be valid. Verdicts carry the version, so that a later reader knows by which
// limits a verdict was given.
func Version(l *analyzer.Limits) string {
	base := none()
	text := mustJSON(describeLimits(l, &base, true))
	return events.Hash{Algorithm: events.XXH64, Value: xxhash.Sum64(text)}.String()
}
