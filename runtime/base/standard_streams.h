// Standard input, output and error of a program.
#pragma once

namespace atl {

// Opens descriptors 0, 1 and 2 if the parent has closed them. Otherwise the next socket or file
// would get such a number, and output for a terminal would be written into it. Standard input is
// then at its end, writing to standard output fails, and standard error is lost. Exits if that is
// impossible. Call first in main.
void OpenStandardStreams();

}  // namespace atl
