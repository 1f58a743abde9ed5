// Package journeys tests what a new user does: each test takes its commands and its code from a page, runs
// them with the built program in an empty environment, and asserts what the page promises.
package journeys
