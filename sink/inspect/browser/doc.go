// Package browser tests the inspector in a real browser, in front of a real weir. The browser is headless
// Chromium, driven by the DevTools protocol. The package is a module of its own, so that
// weir itself depends on none of it. The script beside it fetches what the tests need.
package browser
