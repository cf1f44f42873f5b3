// Moving words. Needs common.glsl and the constant BYTES: 1, 2, 4, 8 or 16.
void move_word(uint64_t destination, int64_t to, uint64_t source, int64_t from) {
    if (BYTES == 16) AT_V4(destination, to) = AT_V4(source, from);
    else if (BYTES == 8) AT_V2(destination, to) = AT_V2(source, from);
    else if (BYTES == 4) AT_U32(destination, to) = AT_U32(source, from);
    else if (BYTES == 2) AT_U16(destination, to) = AT_U16(source, from);
    else AT_U8(destination, to) = AT_U8(source, from);
}
