#pragma once

/* Force-included by the build: functions that have no safe use do not compile. The system headers
 * come first, so that their own declarations pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol system popen gets
