// Package access authenticates callers and decides which routes and flows they may use. A principal is known by a token
// or by the name in a client certificate, has roles, may be bound to sources and flows, and may do so much in a second.
// What a person orders leaves a line in the audit log, also when it was refused.
//
// It promises that files which are read again either take effect whole or not at all, and
// that a token or a certificate that was taken out of them opens nothing from then on.
package access
