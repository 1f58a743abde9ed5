// Package browser tests the inspector in a real browser: headless Chromium, told what to
// do by the DevTools protocol, in front of a real weir. It is a module of its own, so that
// weir itself depends on none of it. The script beside it fetches what the tests need.
package browser
