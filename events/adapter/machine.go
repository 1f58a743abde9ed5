package adapter

import (
	"bytes"

	"weir/events"
)

// machinePrompts are what messages begin with that a program writes in the place of the user.
var machinePrompts = [][]byte{
	[]byte("<system-reminder"), []byte("[SYSTEM"), []byte("[System"), []byte("<system>"), []byte("<system_"), []byte("<task-notification"), []byte("<task_notification"),
	[]byte("<automation"), []byte("<automated"), []byte("[automated"), []byte("[Automated"), []byte("<timer"), []byte("<reminder"), []byte("<nudge"), []byte("[nudge"),
	[]byte("Stop hook feedback"), []byte("<hook"), []byte("<user-prompt-submit-hook"), []byte("<heartbeat"), []byte("[heartbeat"), []byte("[cron"), []byte("<cron"),
	[]byte("<continuation"), []byte("[continuation"), []byte("This is an automated"), []byte("System: "), []byte("SYSTEM: "),
}

// MachinePrompt reports whether a message of the user was written by a program: a nudge, a
// continuation, a timer. Such a message is no person's word and begins nothing anew.
func MachinePrompt(text []byte) bool {
	text = bytes.TrimSpace(text)
	for _, head := range machinePrompts {
		if bytes.HasPrefix(text, head) {
			return true
		}
	}
	return false
}

// timed are what prompts begin with that a timer sends.
var timed = [][]byte{[]byte("<timer"), []byte("<heartbeat"), []byte("[heartbeat"), []byte("[cron"), []byte("<cron"), []byte("<automation"), []byte("<automated"), []byte("[automated"), []byte("[Automated"), []byte("This is an automated")}

// OriginOf returns the origin of a flow that begins with the message: a person, a timer, or a program
// that writes in the place of the user.
func OriginOf(text []byte) events.Origin {
	if !MachinePrompt(text) {
		return events.OriginUser
	}
	text = bytes.TrimSpace(text)
	for _, head := range timed {
		if bytes.HasPrefix(text, head) {
			return events.OriginScheduler
		}
	}
	return events.OriginSystem
}
