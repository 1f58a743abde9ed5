// Package config resolves settings: flag, environment, configuration file, default, in that order.
//
// There is no second list of settings. They are the flags of the command that serves,
// and a setting has one name everywhere: the flag --kafka-user is kafka-user in the
// file and WEIR_KAFKA_USER in the environment.
//
// The file is YAML and is read strictly: a key that is not known, one that is given
// twice and a value of a wrong type are each refused with line, column and a way on,
// all of them at once. Secrets do not stand in it; see Secret.
package config
