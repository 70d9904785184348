/* What a directory holds, to see that something has left it alone. */
#ifndef HARNESS_TREE_H
#define HARNESS_TREE_H

/* A line for each entry at any depth, in order: path, mode, owner, size and time of change, and what is in it
** (a hash of a file's bytes, where a link leads to). Entries of the directory itself whose names begin with
** `but` are left out with all below them (NULL: none). The caller frees. */
char *tree_lines(const char *path, const char *but);
/* The lines are still those; frees them. */
void tree_is(const char *path, const char *but, char *before);

#endif
