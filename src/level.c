/* SPDX-License-Identifier: MIT */
#include "level.h"

enum { SLACK = 50 }; /* per mille */

int postbag__level(int level, int64_t fill)
{
    static const int marks[] = {100, 95, 80, 50};

    for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        int64_t mark = marks[i] * 10 - (marks[i] <= level ? SLACK : 0);

        if (fill >= mark)
            return marks[i];
    }
    return 0;
}
