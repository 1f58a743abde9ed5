// Package operate implements the commands that run and inspect weir: run, config, doctor, topics and lag. They share
// one table of settings, which every flag, variable of the environment and line of a configuration file goes through;
// the flags that name brokers and limits are here for other commands, too, because their defaults come out of that
// table.
package operate
