// Under a lock that all cores share.
#define LOCKED
#include "again.h"
