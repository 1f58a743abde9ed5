// Package standing holds standing orders: what an order has whatever it is about, how it is
// given, renewed, defied and taken back, and what a verdict says of it, to programs, to people
// and to the model. It promises one life and one language for all orders; whom an order is
// about, and when it is given, is said by whoever keeps it.
package standing
