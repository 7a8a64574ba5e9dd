// Carries out the steps of a script and keeps the model in step.
#ifndef PERFORM_H
#define PERFORM_H

#include "model.h"
#include "script.h"

// Starts what the places need: plugins, the worker. False, with a reason on stdout, if that fails.
bool prepare_places();
// Carries out one step that is about memory; false, with a reason on stdout, if a promise of the C
// library was broken.
bool perform(Model &model, const Op &op);
// What SWAP has put where all threads can take it, of EXCHANGED slots. Only while no thread is at work.
constexpr int EXCHANGED = 8;
const Slot *exchange();
// Gives back everything.
bool clear(Model &model);
// Unloads and loads the MPI's plugin.
bool reload_plugin();

#endif
