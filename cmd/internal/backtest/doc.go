// Package backtest says what limits would have done to a log that exists: whom they
// would have warned and stopped and what came after, what the rules measured against
// their thresholds, how few flows another threshold would have stopped, and by which
// limits honest flows pass with room to spare. It folds by the one fold that judges live
// traffic, and reads no clock and no file: its caller hands it events in order.
package backtest
