/* SPDX-License-Identifier: MIT */
/* See marks.h. */
#include "marks.h"

#define FAULT_NAME(name, rate, text) [name] = #name,
#define NEWS_NAME(name, text) [name] = #name,
#define FAULT_TEXT(name, rate, text) [name] = (text),
#define NEWS_TEXT(name, text) [name] = (text),
#define FAULT_RATE(name, rate, text) [name] = (rate),

const char *const sim_mark_names[MARKS] = {
    SIM_FAULTS(FAULT_NAME) SIM_NEWS(NEWS_NAME)};
const char *const sim_mark_texts[MARKS] = {
    SIM_FAULTS(FAULT_TEXT) SIM_NEWS(NEWS_TEXT)};
const unsigned sim_fault_rates[FAULTS] = {SIM_FAULTS(FAULT_RATE)};
