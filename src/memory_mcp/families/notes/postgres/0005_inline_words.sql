-- Words of up to 8 kB lie in their row: a search reads the words of hundreds of texts, several times each. Rows that are
-- there move when they are written again.
ALTER TABLE notes_words_rows SET (toast_tuple_target = 8160);
