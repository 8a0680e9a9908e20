def page(folder): return ""
