/* A library that only the program needs. */
#include "carry_out.h"

void part_carry_out(struct order *order) { carry_out_order(order); }
