// Standard input, output and error of a program of ours.
#pragma once

namespace atl {

// Opens descriptors 0, 1 and 2 where whoever started the program has closed them: else the next
// socket or file gets such a number, and what is meant for a terminal is written into it. Standard
// input is then at its end, writing to standard output fails, and what goes to standard error is
// lost. Ends the process if that cannot be. To be called first in main.
void OpenStandardStreams();

}  // namespace atl
