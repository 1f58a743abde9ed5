// Package standing is the life of an order: given, renewed, ignored, widened, lifted, expired, and its verdicts. It
// promises one life and one language for all orders; whom an order is about, and when it is given, is said by whoever
// keeps it.
package standing
