// Package intake reads events from growing files, pipes and folders, and from telemetry that programs send. It promises
// that a record whose place was stored, or which was acknowledged, is in the log or on the disk, that a crash loses
// none of them, and that what cannot be read becomes a dead letter, so far as there are not too many.
package intake
