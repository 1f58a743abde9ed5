// Package ask answers whether a call may be made. It promises that what it says is what
// the fold says, or an order that binds all flows; that an id stands for one call; and
// that one call is not allowed over and over.
package ask
