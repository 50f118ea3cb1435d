#include "execution/executor.h"
#include "execution/journal.h"
