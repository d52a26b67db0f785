// Package patch edits checkpoints. Every edit is planned from what is there,
// refuses before it writes, touches only what it names, and can be repeated
// without effect.
package patch
