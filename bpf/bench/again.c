// Without a lock, as the product.
#include "again.h"
