package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/state"
)

// backupCommand is weir backup: all of the state of a running weir in one file.
func backupCommand() cli.Command {
	return cli.Command{
		Name: "backup", Args: "FILE", Wants: cli.Wants(1, 1, "a FILE to write"), Short: "copy the state of a running weir into a file",
		Long: `Copies the state of a running weir as of one moment: events, flows, agents, verdicts and
cursors. weir goes on meanwhile. FILE appears when all of it is on the disk; a backup that
was interrupted leaves FILE.part. The file holds what agents wrote: protect it like the
state.

If weir has tokens, the command needs one that may read all flows. On Kafka the topics
hold the events and the verdicts, and the state needs no backup.`,
		Examples: []string{"weir backup /backups/weir-monday.backup --token-file admin.token"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			server := client.NewServerFlags(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				c, err := server.Client(env)
				if err != nil {
					return err
				}
				n, err := backUp(ctx, c, args[0])
				if err != nil {
					return err
				}
				_, err = cli.Fprintf(env.Out, "%s: %s bytes\n", args[0], cli.Grouped(n))
				return err
			}
		},
	}
}

// backUp reads a backup into a file, which appears under its name when it is whole and on the disk.
func backUp(ctx context.Context, c *client.Client, path string) (n int64, err error) {
	resp, err := c.Do(ctx, http.MethodGet, api.BackupPath, nil, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(f, resp.Body)
	if err == nil {
		_, err = state.CheckBackup(ctx, io.NewSectionReader(f, 0, n))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return n, fmt.Errorf("the backup is not whole: %w", err)
	}
	return n, os.Rename(part, path)
}

// restoreCommand is weir restore: a state folder made of a backup.
func restoreCommand() cli.Command {
	return cli.Command{
		Name: "restore", Args: "FILE", Wants: cli.Wants(1, 1, "the FILE of a backup"), Short: "make a state folder from a backup",
		Long: `Makes a new state folder from a file of weir backup, checks it, and exits. Start weir with
that folder afterwards. The folder must be empty or missing: nothing is overwritten. A
backup that is cut off or changed is rejected, and leaves no folder.

Events after the backup are not in it. Flows that were stopped later run again until
they reach a limit. Senders that keep their events may send them again.`,
		Examples: []string{"weir restore /backups/weir-monday.backup --state /var/lib/weir"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			folder := fs.String("state", "", "make the state in this folder `DIR`")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if *folder == "" {
					return cli.Usage("--state is missing").Advise("name the folder that weir run gets: --state DIR")
				}
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				keys, err := state.Restore(ctx, *folder, f, state.Options{})
				if err != nil {
					return fmt.Errorf("%s: %w", filepath.Base(args[0]), err)
				}
				_, err = cli.Fprintf(env.Out, "%s: %s keys\n", *folder, cli.Grouped(keys))
				return err
			}
		},
	}
}
