// Package journeys tests what a new user does, with the commands and code of the pages.
package journeys
