#include "../common/rotate.inl"
