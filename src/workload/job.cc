#include "workload/job.h"
