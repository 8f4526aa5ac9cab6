// Starts the spawner again when it dies by accident, where no service manager does: a daemon that
// has given up root cannot. Nothing else: it opens nothing, serves nobody, and if it is killed the
// spawner lives on.
#pragma once

namespace atl::spawner {

// argv without "--keep", for the spawner. Returns the exit status for main: the spawner's own, once
// it has ended on purpose or could not start.
int Keep(int argc, char** argv);

}  // namespace atl::spawner
