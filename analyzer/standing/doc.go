// Package standing is the life of an order: given, renewed, ignored, widened, lifted, expired, and its verdicts. All
// orders have the same life and the same wording. The owner of an order decides which party it is about, and when it
// is given.
package standing
