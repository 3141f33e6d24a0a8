// The reply leaves in the packet of its request.
#define LEAVE(packet) return redirect((packet)->interface, 0)
#include "return.h"
