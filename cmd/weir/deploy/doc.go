// Package deploy holds tests of what is deployed: the image, the stack of
// docker-compose.yml, and the examples for Kubernetes and systemd. It is a module of its
// own, because their formats are read by the libraries of those programs.
package deploy
