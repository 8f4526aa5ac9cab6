// The compiled part of Asio (BOOST_ASIO_SEPARATE_COMPILATION), once instead of in every file.
#include <boost/asio/impl/src.hpp>
