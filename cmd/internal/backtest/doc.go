// Package backtest reports what limits would have done to an existing log. It folds by the one fold that judges live
// traffic, and reads no clock and no file: its caller hands it events in order.
package backtest
