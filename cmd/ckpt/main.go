// Command ckpt is surgery on model checkpoints stored as safetensors.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is the program: arguments in, exit code out.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second ^C kills
	s := &session{stdout: stdout, stderr: stderr, json: wantsJSON(args)}
	app := newApp(s)
	if len(args) > 1 && args[1] == completeCommand {
		complete(app, args[2:], stdout)
		return exitDone
	}
	if c := findCommand(app, args); c != nil {
		s.command = c.Name
	}
	args, err := permute(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	return s.finish(err)
}
