/* Compiled twice: as the plugin that the MPI loads at run time, inside a call, and as the
 * program's plugin. */
#include "carry_out.h"

void plugin_carry_out(struct order *order) { carry_out_order(order); }
