// A dependency of the MPI alone, in C++.
#include "carry_out.h"

extern "C" void dep_carry_out(struct order *order) { carry_out_order(order); }

extern "C" void dep_both_carry_out(struct order *order) { both_carry_out(order); }
