// Package ask answers checks: may this call be made? It promises that what it says is what the fold says, or an order
// that binds all flows, or, while the fold is behind, what the fold says of what it knew (see Degraded); that an id
// stands for one call; and that one call is not allowed over and over.
//
// Service is the one way to an answer. The other types are its parts.
package ask
