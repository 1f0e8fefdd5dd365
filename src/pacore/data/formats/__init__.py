"""The formats of data sets, one file a dialect: each reads rows into records and writes records as rows."""
