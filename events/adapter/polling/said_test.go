package polling_test

import (
	"testing"

	"weir/events/adapter/polling"
)

// TestStates holds what results say of how something goes, in the words of several programs and
// languages.
func TestStates(t *testing.T) {
	for want, results := range map[polling.State][]string{
		polling.GoesOn: {
			"Status: läuft", `{"status":"läuft noch"}`, "Status: in Bearbeitung", `{"statut":"en cours"}`, "Statut : en cours", `{"estado":"en curso"}`, "Estado: en ejecución", `{"status":"em andamento"}`,
			"stato: in corso", "Статус: выполняется", `{"status":"进行中"}`, "状态: 运行中", "状态：运行中", "ステータス: 実行中", "상태: 진행 중", `{"status":"pendiente"}`,
			"Build is still running...", "Job 17 is in progress", "The build has not finished yet", "Deployment in progress (42%)", "RUNNING", "Installing dependencies...", "Still being processed. Check again later.",
			"progress: 40%", "40% complete", "Still waiting for the lock held by pid 12", "in queue (position 3)", "No response yet", "Der Lauf ist noch nicht fertig", "任务正在运行",
			`{"done": false}`, `{"finished": false, "rc": null}`, `{"is_complete":false,"pct":40}`, `{"ready":false}`, `{"isRunning": true, "pid": 77}`, `{"progress": 0.4}`, `{"percent": 40, "eta": "3m"}`,
			`{"job":{"phase":"Rolling out"}}`, `{"status":{"code":"IN_PROGRESS","text":"busy"}}`, `{"exit_code":null}`, `{"exitCode":null,"output":"compiling"}`, `{"status":"Rendering"}`,
			`{"stdout":"Status: pending\n","stderr":""}`, "Command: ./look\nDirectory: (root)\nOutput: still running\nError: (none)\nExit Code: 0\nSignal: 0",
		},
		polling.Over: {"Status: abgeschlossen", `{"status":"已完成"}`, `{"done": true}`, `{"running": false}`, "Estado: completado", `{"status":"fehlgeschlagen"}`},
		polling.Unknown: {
			"", "ok then", "The deployment failed while it was still running", "3 files changed", "Missing...", "nothing to commit, working tree clean", "100%", "12% of the tests cover this file", `{"name":"x","n":3}`,
			`{"items":[{"completed":false},{"completed":true}]}`, "def running(): return waiting", "exit_code: null", `{"status":"billing"}`, `{"progress": 100}`,
			"error: please wait until the lock is free", `{"status":"something else entirely"}`,
		},
	} {
		for _, said := range results {
			if got := polling.Read([]byte(said)).State; got != want {
				t.Errorf("%q: %v, want %v", said, got, want)
			}
		}
	}
}
