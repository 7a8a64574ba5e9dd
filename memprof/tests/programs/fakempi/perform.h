// Carries out the steps of a script and keeps the model in step.
#ifndef PERFORM_H
#define PERFORM_H

#include "model.h"
#include "script.h"

// Starts what the slots need: plugins, the worker. Returns false, with a reason on stdout, if that
// fails.
bool prepare_places();
// Carries out one step that concerns memory; returns false, with a reason on stdout, if a promise
// of the C library was broken.
bool perform(Model &model, const Op &op);
// Slots that SWAP has made available to all threads, EXCHANGED in number. Only while no thread is
// running.
constexpr int EXCHANGED = 8;
const Slot *exchange();
// Frees everything.
bool clear(Model &model);
// Unloads and loads the MPI's plugin.
bool reload_plugin();

#endif
