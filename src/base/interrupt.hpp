// Remembers that the user asked to stop, so that loops end and files are closed properly.
#pragma once

namespace lockstep {

// Ctrl-C, SIGTERM and SIGHUP are noted from now on. A second one ends the process at once.
void watch_for_interrupts();

// Called, in the signal handler, before a second signal ends the process: what must be put right
// whatever happens.
void before_forced_exit(void (*put_right)());

// A byte is written there at each signal, so that a wait on it ends; -1: nowhere.
void wake_on_interrupt(int descriptor);

// The signal that asked us to stop, or 0.
int interrupted_by();

// Whether it came from the terminal, which sends it to the whole foreground group.
bool interrupted_from_terminal();

}  // namespace lockstep
