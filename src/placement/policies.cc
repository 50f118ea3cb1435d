// The table of policies: name, one-line help, source, factory. Written out by hand, since static
// self-registration is lost when an archive member is not referenced.
#include "placement/policy.h"
